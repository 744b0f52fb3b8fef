"""Text generation: sampling, decoding, beam search and interpolation of predictors."""
