"""What commands show and ask: tables and JSON, progress, questions, errors and exit codes."""
