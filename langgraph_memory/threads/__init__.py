"""What happened: threads on SQLite, one row a message."""
