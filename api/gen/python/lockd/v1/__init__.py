"""Generated stubs of the protocol lockd.v1. DO NOT EDIT."""
