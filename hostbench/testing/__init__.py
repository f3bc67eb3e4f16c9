"""What ships for tests and demonstrations: fake hardware, histories whose changes are known."""
