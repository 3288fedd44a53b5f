"""The drill: faults in the middle of real transfers, with what each one costs: `make drill`."""
