"""Many runs: figures of the papers, and sweeps."""
