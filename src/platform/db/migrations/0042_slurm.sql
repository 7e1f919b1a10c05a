-- How jobs are submitted on a cluster with Slurm. Null for a machine over ssh.
ALTER TABLE regions ADD COLUMN slurm TEXT;
