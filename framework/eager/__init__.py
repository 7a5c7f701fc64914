"""What a tensor is made of below its operations, and what a call records."""
