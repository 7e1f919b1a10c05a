-- What the command of a custom job may use: limits of its jail, its network and its variables, which are sealed.
ALTER TABLE training_jobs ADD COLUMN resources TEXT;
ALTER TABLE training_jobs ADD COLUMN network TEXT;
ALTER TABLE training_jobs ADD COLUMN env_names TEXT NOT NULL DEFAULT '[]';
ALTER TABLE training_jobs ADD COLUMN env_sealed TEXT NOT NULL DEFAULT '';

-- Main memory of a holder on the first of its devices, if the device is a GPU.
ALTER TABLE gpu_leases ADD COLUMN main_bytes INTEGER NOT NULL DEFAULT 0;
