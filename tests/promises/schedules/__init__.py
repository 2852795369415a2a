"""One file a subject; each lists its schedules under SCHEDULES."""
