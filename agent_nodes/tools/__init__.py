"""What a model may do: tools, their permissions and the place they work in."""
