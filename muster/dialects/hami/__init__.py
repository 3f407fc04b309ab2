"""HAMi: shares of cards by extender and webhook. Its annotations, its filter, its admission, its quota."""
