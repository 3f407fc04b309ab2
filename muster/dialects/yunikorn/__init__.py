"""YuniKorn: its queue configuration, its placement rules, and applications made of pods."""
