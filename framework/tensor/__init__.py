"""The tensor class, its methods and the functions that make tensors."""
