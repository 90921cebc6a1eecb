"""regraft: rewrite tensor dataflow programs by pattern, and take their gradients."""
