-- Samples of a job by prompt, newest step first. The length and the end of a prompt are short and nearly unique; a common
-- beginning, such as a system prompt, is not in the index.
CREATE INDEX training_samples_prompt ON training_samples (job_id, length(prompt), substr(prompt, -64), step, number);
