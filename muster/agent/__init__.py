"""What runs on nodes."""
