"""The command line: parses what the user typed, calls the app and shows the answer."""
