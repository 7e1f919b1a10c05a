/** A decoding thread whose device answers at once: every sequence gets a token each step. */

import type { Adapters } from "../../src/workers/serving/engine/adapters.ts";
import type { Backend, Results } from "../../src/workers/serving/engine/backends/types.ts";
import type { TokenKinds } from "../../src/workers/serving/engine/kinds.ts";
import { Scheduler } from "../../src/workers/serving/engine/scheduler.ts";
import type { Sequence } from "../../src/workers/serving/engine/sequence.ts";
import { FramePost } from "../../src/workers/serving/engine/thread/frame_post.ts";
import type { FromThread, ToThread } from "../../src/workers/serving/engine/thread/messages.ts";
import { Pulse } from "../../src/workers/serving/engine/thread/pulse.ts";

declare const self: {
  onmessage: (event: { data: (ToThread | { type: "open"; stepMs: number; pulse: SharedArrayBuffer })[] }) => void;
  postMessage: (message: FromThread) => void;
};

const NONE = { key: 0, address: null, scale: 1, users: 0, named: true, owned: false };
let stepMs = 1;
let post: FramePost | null = null;

function openInstant(results: Results): Backend {
  const running = new Set<Sequence>();
  let last = 0;
  let token = 300;
  return {
    admit(waiting) {
      for (const sequence of waiting) {
        sequence.slot = sequence.id;
        running.add(sequence);
        results.started(sequence, 0);
      }
      return [];
    },
    step() {
      while (performance.now() - last < stepMs);
      last = performance.now();
      for (const sequence of running) results.drawn(sequence, 300 + (token++ % 1700), null);
    },
    preempt: () => false,
    release: (sequence) => void running.delete(sequence),
    probe: (submit) => submit,
    keep: () => false,
    clear() {},
    close() {},
  };
}

const scheduler = new Scheduler(
  {
    kinds: { of: () => 0 } as unknown as TokenKinds,
    adapters: { use: () => NONE, release() {} } as unknown as Adapters,
    onFailed() {},
  },
  openInstant,
);
let turning = false;

self.onmessage = ({ data }) => {
  for (const message of data) {
    if (message.type === "open") {
      if ("stepMs" in message) stepMs = message.stepMs;
      post = new FramePost((frame) => self.postMessage(frame), new Pulse(message.pulse));
    } else if (message.type === "submit") scheduler.submit(message);
    else if (message.type === "cancel") scheduler.cancel(message.sequences);
  }
  if (!turning && !scheduler.idle) {
    turning = true;
    setImmediate(turn);
  }
};

function turn() {
  if (!scheduler.idle) scheduler.step();
  post?.offer(scheduler);
  turning = !scheduler.idle;
  if (turning) setImmediate(turn);
}
