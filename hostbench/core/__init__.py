"""What everything rests on: errors, units, cases, samples, pure formulas. No torch, no pandas."""
