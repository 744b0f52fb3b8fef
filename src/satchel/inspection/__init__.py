"""Looking at what models do: charts. Traces and lenses come here."""
