import { NAME } from "./serving.ts";
import * as training from "./training.ts";
import { clientOf, expect, made, type Step, type Walk } from "./walk.ts";

const BEFORE_AT_MOST = 0.5;
const AFTER_AT_LEAST = 0.8;

export const TRAINING_STEPS: readonly Step[] = [
  { title: "ask it what it is bad at", run: askBefore },
  { title: "push rows for training", run: pushTask },
  { title: "try the reward", run: (walk) => training.tryReward(clientOf(walk)) },
  { title: "try the job with the real model and reward", run: tryOut },
  { title: "train with GRPO", run: train },
  { title: "deploy what was trained", run: deployResult },
  { title: "ask again", run: askAfter },
  { title: "chat with it as before", run: chat },
];

async function askBefore(walk: Walk) {
  walk.before = await training.answerAll(clientOf(walk), NAME);
  expect(
    walk.before.share <= BEFORE_AT_MOST,
    `the model is too good before the training: ${training.percent(walk.before)} correct`,
  );
  return `${training.percent(walk.before)} correct`;
}

async function pushTask(walk: Walk) {
  const { id, detail } = await training.pushTask(clientOf(walk));
  walk.taskId = id;
  return detail;
}

function tryOut(walk: Walk) {
  return training.tryOut(clientOf(walk), made(walk, "taskId"));
}

async function train(walk: Walk) {
  const client = clientOf(walk);
  const { id } = await training.startJob(client, made(walk, "taskId"));
  walk.jobId = id;
  return `${id}, ${await training.untilTrained(client, id, walk.viewer, walk.signal)}`;
}

async function deployResult(walk: Walk) {
  const { id, detail } = await training.deployResult(clientOf(walk), made(walk, "jobId"), walk.signal);
  walk.resultId = id;
  return detail;
}

async function askAfter(walk: Walk) {
  walk.after = await training.answerAll(clientOf(walk), training.RESULT);
  expect(walk.after.share >= AFTER_AT_LEAST, `the model learned too little: ${training.percent(walk.after)} correct`);
  return `${training.percent(walk.after)} correct`;
}

const QUESTION = "Hello! Who are you?";

async function chat(walk: Walk) {
  const text = await training.ask(clientOf(walk), training.RESULT, QUESTION);
  expect(text !== "", "the answer is empty");
  return `"${QUESTION}" → "${text.replaceAll(/\s+/g, " ").slice(0, 90)}"`;
}
