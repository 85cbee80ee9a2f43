"""The arithmetics of generated C, one module each; lbnn/exporters/c/dtype.py says what they are asked."""
