"""A catalogue of titles that keeps itself up to date: their posters in our storage, their ids at TMDB."""
