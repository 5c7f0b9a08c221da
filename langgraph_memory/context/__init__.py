"""What the model sees on a call: pure functions from messages and decisions to a view. No I/O, no clock, no chance."""
