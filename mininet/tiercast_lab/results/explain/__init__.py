"""Why a receiver's rate was what it was."""
