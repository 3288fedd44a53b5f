"""The relay: the process to which agents hold their tunnels, and by which workers and other agents reach them."""
