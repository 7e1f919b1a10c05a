/** `verk worker trainer`: one task (a training, a preview, an export, or texts in the chat template), then exit. */
import type { Act } from "../../lib/rewards/contract.ts";
import { type Host, runHosted } from "../host.ts";
import { type FromTrainer, ToTrainer, type TrainTask } from "../protocol_trainer.ts";
import { inspectRows } from "./data/inspect.ts";
import { exportFiles } from "./export.ts";
import { exportFolder } from "./export_folder.ts";
import { createResultWriter } from "./learned.ts";
import { train } from "./loop/train.ts";
import type { ActAll } from "./loop/turns.ts";
import type { Score, World } from "./loop/types.ts";
import { type Machine, type Opened, openTraining } from "./open.ts";
import { spreadActs, spreadScore } from "./ranks/messages.ts";
import { openRanks } from "./ranks/start.ts";
import type { Ranks } from "./ranks/types.ts";
import { renderConversations } from "./template.ts";
import { asTrouble, asWorkerError, Trouble, withKind } from "./trouble.ts";

type TrainerHost = Host<ToTrainer, FromTrainer>;
type Task = Extract<
  ToTrainer,
  { type: "train" | "preview" | "export" | "export_folder" | "template" | "inspect_rows" }
>;

/** A micro-batch, or loading a large model, may block the thread for this long. */
const QUIET_MS = 600_000;

export const runTrainer = () => runHosted<ToTrainer, FromTrainer>(ToTrainer, serve);

async function serve(host: TrainerHost): Promise<void> {
  const channel = listen(host);
  const task = await channel.task;
  if (!task) return; // stopped before a task came
  host.beat(QUIET_MS);
  try {
    await perform(host, channel, task);
    host.send({ type: "done" });
  } catch (error) {
    if (host.stopping.aborted) return; // the task was aborted on purpose
    const trouble = asTrouble(error);
    if (!trouble) throw withKind(error);
    const { kind, message, about } = trouble;
    host.send({ type: "trouble", kind, message, param: about.param ?? null, sample: about.sample ?? null });
    throw asWorkerError(trouble);
  }
}

async function perform(host: TrainerHost, channel: Channel, task: Task): Promise<void> {
  const onTurn = () => host.beat(QUIET_MS);
  if (task.type === "export") return exportFiles(task, { send: host.send, onTurn });
  if (task.type === "export_folder") return exportFolder(task, { send: host.send, onTurn });
  if (task.type === "template") return host.send({ type: "rendered", results: renderConversations(task) });
  if (task.type === "inspect_rows") return host.send(await inspectRows(task, onTurn));
  const onTraining = () => {
    host.stopping.throwIfAborted();
    onTurn();
  };
  const ranks = task.type === "train" ? await openRanks({ task, ...host, onTurn: onTraining }) : null;
  const isShared = task.type === "train" && ranks && !task.streams; // on several nodes, a task has the rank's own device
  const machine = { ...task, gpus: isShared ? task.gpus.slice(ranks.index, ranks.index + 1) : task.gpus };
  const opened = await openTraining({
    machine,
    plan: task.plan,
    ranks,
    samplesPerStep: task.type === "train" ? task.samples_per_step : 0,
    fresh: task.type === "preview" || (task.resume === null && task.warm_start === null),
    onLoading: createLoading(host),
    onTurn: onTraining,
  });
  try {
    const isRewarded = task.plan.unrewarded !== true;
    const world = worldOf(host, channel, { ...opened, ranks, isRewarded, isOnGpu: task.gpus.length > 0 });
    if (task.type === "preview") await opened.preview(world, task.prompts);
    else await train(world, opened.openMethod, optionsOf(task, machine, opened));
  } finally {
    if (!host.stopping.aborted) await opened.close(); // otherwise the exit frees everything
  }
}

const PROGRESS_STEP = 0.01;

function createLoading({ send }: TrainerHost) {
  let shown = { stage: "", progress: 0 };
  return (stage: string, progress: number) => {
    if (stage === shown.stage && progress - shown.progress < PROGRESS_STEP) return;
    shown = { stage, progress };
    send({ type: "loading", ...shown });
  };
}

function optionsOf(task: TrainTask, machine: Machine, opened: Opened): Parameters<typeof train>[2] {
  const { trainee, roller, recipe, sampling } = opened;
  const one = roller?.facts.device ?? (task.gpus.length > 0 ? `GPU ${task.gpus.join(", ")}` : "CPU");
  const device = task.ranks > 1 && (roller || task.gpus.length === 0) ? `${task.ranks} × ${one}` : one;
  const writeResult = createResultWriter({ trainee, machine, plan: task.plan });
  return { ...task, device, rows: recipe.rows, sampling, writeResult };
}

type Around = Opened & { ranks: Ranks | null; isRewarded: boolean; isOnGpu: boolean };

/** Rank 0 alone talks to the server. */
function worldOf(host: TrainerHost, channel: Channel, around: Around): World {
  const { trainee, reference, teacher, frozenBytes, roller, ranks, isRewarded, isOnGpu } = around;
  const score = ranks ? spreadScore(ranks, channel.score) : channel.score;
  const isFirst = (ranks?.index ?? 0) === 0;
  return {
    trainee,
    ranks,
    reference,
    teacher,
    score: isRewarded ? score : null,
    act: ranks ? spreadActs(ranks, channel.act) : channel.act,
    send: isFirst ? host.send : () => {},
    signal: host.stopping,
    isEnding: channel.isEnding,
    now: () => performance.now(),
    memoryBytes: () => Math.round(trainee.memoryBytes + frozenBytes() + (roller?.facts.memoryBytes ?? 0)),
    isOnGpu,
  };
}

type Channel = { task: Promise<Task | null>; score: Score; act: ActAll; isEnding: () => boolean };
/** Answers by the id of the request. */
type Answer = Extract<ToTrainer, { type: "scored" | "acted" }>;

/** Reads the server's messages for the life of this process. */
function listen(host: TrainerHost): Channel {
  const task = Promise.withResolvers<Task | null>();
  const pending = new Map<number, PromiseWithResolvers<Answer>>();
  let ending = false;
  let lastId = 0;
  const handleMessage = (message: ToTrainer) => {
    if (message.type === "save_and_end") ending = true;
    else if (message.type === "scored" || message.type === "acted") pending.get(message.id)?.resolve(message);
    else if (message.type === "unscored") pending.get(message.id)?.reject(new Trouble("bad_reward", message.message));
    else task.resolve(message);
  };
  void (async () => {
    for await (const message of host.messages) handleMessage(message);
    task.resolve(null);
    for (const each of pending.values()) each.reject(new Error("The server is stopping this worker"));
  })();
  const ask = (request: (id: number) => FromTrainer): Promise<Answer> => {
    const id = ++lastId;
    const answer = Promise.withResolvers<Answer>();
    pending.set(id, answer);
    host.send(request(id));
    return answer.promise.finally(() => pending.delete(id));
  };
  return {
    task: task.promise,
    isEnding: () => ending,
    async score(step, samples) {
      const answer = await ask((id) => ({ type: "score", id, step, samples: [...samples] }));
      if (answer.type !== "scored") throw new Error("The server answered a score with acts");
      return answer;
    },
    async act(acts) {
      const answer = await ask((id) => ({ type: "act", id, acts: acts.map(sentAct) }));
      if (answer.type !== "acted") throw new Error("The server answered acts with scores");
      return answer.results;
    },
  };
}

function sentAct(act: Act): Extract<FromTrainer, { type: "act" }>["acts"][number] {
  const { rollout, seed } = act;
  if (act.act === "reset") return { rollout, seed, act: "reset", row: JSON.stringify(act.row) };
  if (act.act === "end") return { rollout, seed, act: "end" };
  return { rollout, seed, act: "call", name: act.name, arguments: JSON.stringify(act.arguments) };
}
