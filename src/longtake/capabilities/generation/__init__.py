"""Generation: tasks that outlive the browser, the server and the provider's moods."""
