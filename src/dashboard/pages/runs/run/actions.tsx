import { useState } from "preact/hooks";
import { isJobOver } from "../../../../lib/training/job_status.ts";
import { api } from "../../../data/api.ts";
import { deleteResource, load, reload } from "../../../data/resource.ts";
import { may } from "../../../data/session.ts";
import { Button, LinkButton } from "../../../kit/button.tsx";
import { Confirm } from "../../../kit/dialog.tsx";
import { navigate } from "../../../shell/router.ts";
import { attempt } from "../../../shell/toasts.tsx";
import { saveRun } from "../export/save.ts";
import { TrainOn } from "../new/train_on.tsx";
import { type JobCheckpoint, type JobEvent, jobPath, type Point, type TrainingJob } from "../types.ts";
import { Deploy } from "./deploy.tsx";

type ActionsProps = {
  job: TrainingJob;
  checkpoints: readonly JobCheckpoint[];
  points: readonly Point[];
  events: readonly JobEvent[];
};

const PAUSABLE: readonly string[] = ["queued", "provisioning", "running"];

export function Actions({ job, checkpoints, points, events }: ActionsProps) {
  const [open, setOpen] = useState<"cancel" | "delete" | "deploy" | undefined>(undefined);
  const close = () => setOpen(undefined);
  const best = checkpoints.find(({ is_best: isBest }) => isBest) ?? checkpoints[0];
  const move = (verb: "pause" | "resume" | "cancel", done: string) =>
    attempt(async () => {
      await api(`${jobPath(job.id)}/${verb}`, { method: "POST" });
      await load(jobPath(job.id));
    }, done);
  const remove = async () => {
    const answer = await attempt(() => deleteResource(jobPath(job.id)), "Deleted");
    if (answer === undefined) return;
    await reload("/v1/training_jobs?");
    navigate("/runs");
  };
  const mayWrite = may("training", false);
  return (
    <>
      <LinkButton href={`/runs/compare?ids=${job.id}`}>Compare</LinkButton>
      <Button onClick={() => attempt(() => saveRun({ job, points, events, checkpoints }), "Saved as one HTML file")}>
        Save report
      </Button>
      {mayWrite && PAUSABLE.includes(job.status) && <Button onClick={() => move("pause", "Paused")}>Pause</Button>}
      {mayWrite && job.status === "paused" && <Button onClick={() => move("resume", "Resumed")}>Resume</Button>}
      {mayWrite && !isJobOver(job.status) && job.status !== "cancelling" && (
        <Button kind="danger" onClick={() => setOpen("cancel")}>
          Cancel
        </Button>
      )}
      {mayWrite && job.status === "completed" && job.method !== "custom" && (
        <TrainOn model={job.id} rank={job.lora?.r} />
      )}
      {mayWrite && isJobOver(job.status) && (
        <Button kind="danger" onClick={() => setOpen("delete")}>
          Delete
        </Button>
      )}
      {may("inference", false) && best && (
        <Button kind="primary" onClick={() => setOpen("deploy")}>
          {best.is_best ? "Deploy best" : "Deploy newest"}
        </Button>
      )}
      {open === "deploy" && best && <Deploy job={job} checkpoint={best} onClose={close} />}
      {open === "cancel" && (
        <Confirm
          title="Cancel this run?"
          verb="Cancel the run"
          onConfirm={() => move("cancel", "Cancelled")}
          onClose={close}
        >
          It stops for good. Its checkpoints, metrics and samples stay. To stop for a while, pause it.
        </Confirm>
      )}
      {open === "delete" && (
        <Confirm title="Delete this run?" verb="Delete" onConfirm={remove} onClose={close}>
          Its checkpoints, metrics, samples and log are deleted too. Models that it made stay.
        </Confirm>
      )}
    </>
  );
}
