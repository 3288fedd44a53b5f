"""An endpoint in a box: a GridFTP server and a MyProxy server of the Grid Community Toolkit, with an authority."""
