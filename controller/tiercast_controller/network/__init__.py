"""The network as described to the controller, and what each switch needs because of it alone. No
I/O."""
