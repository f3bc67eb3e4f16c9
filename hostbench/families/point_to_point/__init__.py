"""What is asked of the family point_to_point."""
