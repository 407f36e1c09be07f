"""From a row's statistics to a finished tree: sampling, histograms in memory, the open nodes and their growth."""
