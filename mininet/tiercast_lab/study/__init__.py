"""Many runs together: figures of the papers, and sweeps."""
