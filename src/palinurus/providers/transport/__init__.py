"""HTTP/1.1 as models speak it: connections that are kept, answers taken apart."""
