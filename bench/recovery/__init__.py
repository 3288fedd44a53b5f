"""What holds, and how soon work goes on, when processes are killed or servers fail."""
