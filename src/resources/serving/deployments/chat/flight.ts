/** One inference request from its arrival to its record. It owns its replica, and each of its transitions exists once. */
import type { Ctx } from "../../../../context.ts";
import { boundedPriority, type Priority } from "../../../../lib/chat/priority.ts";
import { newId } from "../../../../lib/ids.ts";
import { priorityOf } from "../../../access/api_keys/service.ts";
import type { NewTrace } from "../../../watching/traces/new_trace.ts";
import * as traces from "../../../watching/traces/service.ts";
import { admitBackground } from "../fleet/background.ts";
import { type Live, type Lora, liveOf, type Replica, type Usage } from "../fleet/fleet.ts";
import { limited } from "../remote/limit.ts";
import type { DeploymentRow } from "../table.ts";
import { CapturedOutput } from "./captured_output.ts";
import { withPixels } from "./images.ts";
import { chosenLoras, type LoraChoice, releaseLora, useLoras } from "./loras.ts";
import { type Outcome, saveRequest } from "./records.ts";
import { costOf, type Timeline, toTrace, ttftOf } from "./trace.ts";

export type ModelPath = "/chat/completions" | "/completions" | "/embeddings" | "/rerank";
/** They need the loaded model but generate nothing, and leave no record. */
export type UtilityPath = "/tokenize" | "/detokenize" | "/apply-template" | "/props";
const UTILITIES: readonly string[] = ["/tokenize", "/detokenize", "/apply-template", "/props"];

/**
 * `keyId`: the key that pays if the request wakes the deployment. `background`: the request lets live ones go first, so
 * it does not count against them.
 */
export type InferenceCall = {
  path: ModelPath | UtilityPath;
  body: {
    model: string;
    stream?: boolean | undefined;
    priority?: Priority | null | undefined;
    lora?: readonly { id: string | number; scale: number }[] | null | undefined;
  };
  keyId: string | null;
  background?: boolean;
  /** The header x-conversation-id. */
  conversationId?: string | null;
  /** The agent whose configuration the request uses. */
  agentId?: string | null;
  agentVersion?: number | null;
  /** The answer is in the words of llama.cpp where OpenAI has others. */
  isOfLlama?: boolean;
  /** Called once the request has a record of its own. */
  onBegin?: () => void;
  /** A rollout records the tokens of the answer. */
  recording?: Recording;
  /** Takes the trace of the request, and stores it later. */
  onTrace?: ((trace: NewTrace) => void) | undefined;
};

/** The end of a request that a rollout records. */
export type Recorded = Pick<Outcome, "status"> & {
  traceId: string;
  /** Undefined: no replica has reported. */
  used: Usage | undefined;
  latencyMs: number;
  firstTokenMs: number | null;
  costMicros: number;
};

export type Recording = {
  /** Fields for the worker that no client can send. */
  fields: object;
  onEnd: (end: Recorded) => void;
};

const USAGE_MS = 5_000;

export class Flight {
  readonly id: string;
  /** Answers carry it, so that a client can score its request. */
  readonly traceId: string;
  readonly live: Live;
  readonly #createdAt: number;
  readonly #startedAt = performance.now();
  readonly #aborting = new AbortController();
  readonly #timeline: Timeline = {};
  readonly #output: CapturedOutput | undefined;
  readonly #choices: readonly LoraChoice[];
  #lora: Lora | undefined;
  #replica: Replica | undefined;
  #usage: Promise<Usage | undefined> = Promise.resolve(undefined);
  #isOver = false;
  /** Requests of the deployment when this one came, with it: all, and those that waited for a replica. */
  readonly #atOnce = { open: 0, waiting: 0 };

  /** `onEnd` gives back the permit of an open stream, or the turn of a background request. */
  constructor(
    readonly ctx: Ctx,
    readonly row: DeploymentRow,
    readonly call: InferenceCall,
    readonly onEnd: () => void,
  ) {
    this.#choices = chosenLoras(ctx, row, call.body);
    this.#createdAt = ctx.clock.now();
    this.id = newId("req", this.#createdAt);
    this.traceId = newId("trc", this.#createdAt);
    if (row.capture === "full" && call.path !== "/embeddings" && call.path !== "/rerank")
      this.#output = new CapturedOutput();
    this.live = liveOf(ctx, row.id);
    this.live.usedAt = ctx.clock.steady();
    this.live.flights.add(this);
    this.#atOnce.open = this.live.flights.size;
    call.onBegin?.();
  }

  get signal(): AbortSignal {
    return this.#aborting.signal;
  }

  get replica(): Replica | undefined {
    return this.#replica;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Ends the request: its fetch to the worker, or its wait for a replica, fails with `reason`. */
  abort(reason: unknown) {
    this.#aborting.abort(reason);
  }

  /** `replica` was acquired for this request. A request that is over gives it back at once. */
  attach(replica: Replica) {
    if (this.#isOver) return replica.release();
    this.#replica = replica;
    this.#timeline.attachedMs = this.elapsedMs;
  }

  get elapsedMs(): number {
    return performance.now() - this.#startedAt;
  }

  /** No replica was ready when the request came. */
  waitsFor(what: "queue" | "wake") {
    this.#timeline.waitsFor ??= what;
    this.#atOnce.waiting = this.live.held.size;
  }

  /** A part of a streamed answer passes. */
  receive(chunk: Uint8Array) {
    this.prove();
    if (this.#timeline.sentMs === undefined) return; // the stage of a wake, not yet the answer
    this.#timeline.firstMs ??= this.elapsedMs;
    this.#output?.add(chunk);
  }

  /** A whole answer passes. */
  keep(text: string) {
    this.#output?.set(text);
  }

  /** Gives back a replica that was lost before it answered. The next one reports the usage of this request. */
  detach() {
    if (this.#isOver || !this.#replica) return;
    this.#replica.host.pendingUsage.delete(this.id);
    this.#releaseLora();
    this.#replica.release();
    this.#replica = undefined;
    this.#usage = Promise.resolve(undefined);
  }

  /** The replica shows that it decodes. */
  prove() {
    if (this.#replica) this.#replica.provedAt = this.ctx.clock.steady();
  }

  /** A key never gets more than its own priority, whatever its requests name. */
  #priority(): Priority {
    const { body, background, recording, keyId } = this.call;
    const usual = background ? "batch" : recording ? "rollout" : null;
    const ofKey = keyId ? priorityOf(this.ctx, this.row.workspaceId, keyId) : null;
    return boundedPriority(body.priority ?? usual, ofKey) ?? "normal";
  }

  async send(): Promise<Response> {
    const replica = this.#replica;
    if (!replica) throw new Error("a request without a replica");
    const { host } = replica;
    if (this.#choices.length > 0) {
      const lora = await useLoras(this.ctx, this.row, replica, this.#choices);
      if (this.#isOver) releaseLora(this.ctx, lora);
      else this.#lora = lora;
    }
    const adapter = this.#lora ?? replica.adapter;
    const reader = { ctx: this.ctx, workspaceId: this.row.workspaceId, canSee: host.canSee, signal: this.signal };
    const { body, release } = await withPixels({ ...this.call.body, ...this.call.recording?.fields }, reader);
    this.#timeline.sentMs = this.elapsedMs;
    this.#usage = new Promise((resolve) => host.pendingUsage.set(this.id, resolve));
    const headers = {
      "content-type": "application/json",
      "x-verk-request": this.id,
      "x-verk-checked": "1",
      "x-verk-priority": this.#priority(),
      ...(adapter === null ? {} : { "x-verk-adapter": adapter.name }),
      ...(this.call.isOfLlama ? { "x-verk-llama": "1" } : {}),
      ...(this.call.recording ? { "x-verk-tokens": "1" } : {}),
    };
    const answer = await fetch(`http://worker${this.call.path}`, {
      unix: host.worker.socketPath,
      method: "POST",
      headers,
      body,
      signal: this.signal,
      timeout: false, // a long answer takes as long as it takes
    }).finally(release);
    return host.remote ? limited(answer, this.call.path) : answer;
  }

  #releaseLora() {
    if (this.#lora) releaseLora(this.ctx, this.#lora);
    this.#lora = undefined;
  }

  /** The request no longer counts as inflight, and its record is written. Only the first call has an effect. */
  finish(outcome: Outcome) {
    if (this.#isOver) return;
    this.#isOver = true;
    const { ctx, live } = this;
    this.onEnd();
    live.flights.delete(this);
    live.usedAt = ctx.clock.steady();
    if (outcome.status < 400) this.prove(); // a client that gives up waiting proves nothing
    const chosen = this.#choices.map(({ model }) => model.name).join("+") || null;
    const together = this.#replica?.inflight;
    this.#releaseLora();
    this.#replica?.release();
    admitBackground(ctx);
    if (this.#replica?.inflight === 0) ctx.wake("deployments.reconcile");
    this.#record(outcome, this.elapsedMs, { chosen, together }).catch((error) =>
      ctx.log.error("a request was not recorded", { request: this.id, error }),
    );
  }

  async #record(
    outcome: Outcome,
    latencyMs: number,
    { chosen, together }: { chosen: string | null; together: number | undefined },
  ) {
    const used = await (outcome.status < 400 ? this.#usage : this.#usageSoon());
    this.#replica?.host.pendingUsage.delete(this.id);
    const { id, ctx, row } = this;
    if (UTILITIES.includes(this.call.path)) return;
    const firstTokenMs = ttftOf(this.call, this.#timeline, used);
    const cost = together === undefined ? 0 : costOf(row, latencyMs - (this.#timeline.attachedMs ?? 0), together);
    const ended = { traceId: this.traceId, used, latencyMs, firstTokenMs };
    this.call.recording?.onEnd({ ...ended, status: outcome.status, costMicros: cost });
    const model = this.#replica?.model.model ?? row.model;
    const { waitsFor, attachedMs } = this.#timeline;
    saveRequest(ctx, row, {
      ...outcome,
      ...this.#atOnce,
      id,
      createdAt: this.#createdAt,
      latencyMs,
      keyId: this.call.keyId,
      model,
      prompt: used?.prompt_tokens ?? 0,
      cached: used?.cached_tokens ?? 0,
      completion: used?.completion_tokens ?? 0,
      firstTokenMs,
      waitedMs: waitsFor === undefined ? 0 : (attachedMs ?? latencyMs),
    });
    const trace = toTrace({
      id: this.traceId,
      row,
      call: this.call,
      startedAt: this.#createdAt,
      durationMs: latencyMs,
      outcome,
      used,
      timeline: this.#timeline,
      output: this.#output,
      adapter: chosen ?? this.#replica?.adapter?.name ?? null,
      model,
      together,
    });
    if (this.call.onTrace) this.call.onTrace(trace);
    else traces.record(ctx, trace);
  }

  /** An aborted request may never have reached the worker. Then its usage never comes. */
  async #usageSoon(): Promise<Usage | undefined> {
    const reported = new AbortController();
    const used = await Promise.race([this.#usage, this.ctx.clock.sleep(USAGE_MS, reported.signal)]);
    reported.abort();
    return used ?? undefined;
  }
}
