"""Recovery: the seconds until work goes on when processes are killed or servers fail, and that nothing is lost."""
