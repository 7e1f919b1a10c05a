/**
 * Decoding by our own kernels. Each sequence draws by its own parameters on the device, so a step brings back a few words
 * for each. Prompts are read beside it, as many tokens as running sequences can bear.
 */
import { errorText } from "../../../../lib/error_text.ts";
import { OutOfMemory } from "../../../../native/ggml/out_of_memory.ts";
import { PLAIN } from "../../../decoder/drawing.ts";
import type { Decoder, DrawnToken } from "../../../decoder/types.ts";
import { END } from "../kinds.ts";
import type { PrefixFolder } from "../prefixes/folder.ts";
import { Share } from "../prefixes/share.ts";
import { type GrammarState, Grammars } from "../sampling/grammar.ts";
import { Candidates, NOTHING_LEFT, type SamplerNative } from "../sampling/sampler.ts";
import type { Sequence } from "../sequence.ts";
import { injectFault } from "../thread/fault.ts";
import type { SubmitMessage } from "../thread/messages.ts";
import type { Pulse } from "../thread/pulse.ts";
import { StepPace } from "./step_pace.ts";
import type { Backend, Results } from "./types.ts";

export type KernelOptions = {
  native: SamplerNative;
  decoder: Decoder;
  pulse: Pulse;
  /** Null: prompts stay in memory only. */
  prefixes: PrefixFolder | null;
  /** Called when the backend closes: frees the decoder, its weights and the device. */
  close: () => void;
};

/** `always`: the grammar's mask is set for every token, not only after one that the grammar rejects. */
type Running = { sequence: Sequence; grammar: GrammarState | null; always: boolean };

const DECODER = "own 1"; // of the numbers in pages: a kernel that computes others gets another name
const FLUSH_MS = 4_000; // the server kills a process that takes longer to end

export class KernelBackend implements Backend {
  readonly #options: KernelOptions;
  readonly #results: Results;
  readonly #running = new Map<number, Running>();
  readonly #pace = new StepPace();
  readonly #grammars: Grammars;
  readonly #share = new Share();
  #full = false; // true from a failed admission to the next release

  constructor(options: KernelOptions, results: Results) {
    this.#options = options;
    this.#results = results;
    if (options.prefixes) options.prefixes.promptMsPerToken = () => this.#pace.promptMsPerToken;
    this.#grammars = new Grammars(options.native, new Candidates(options.native.vocabSize));
  }

  /** Pages of known beginnings are only reused when room is short, so a probe costs no cache. */
  probe = (submit: SubmitMessage) => submit;

  admit(waiting: readonly Sequence[]): Sequence[] {
    let next = 0;
    while (next < waiting.length && !this.#full) {
      if (this.#start(waiting[next]!)) next++;
      else this.#full = true;
    }
    return waiting.slice(next);
  }

  /** A sequence that has drawn nothing begins anew: its random numbers are the same again. */
  preempt(sequence: Sequence): boolean {
    if (sequence.next < 0) {
      this.release(sequence);
      sequence.slot = -1;
    } else if (!this.#options.decoder.pause(sequence.slot)) return false;
    sequence.resumed = true;
    this.#full = false;
    return true;
  }

  step() {
    const { decoder, pulse } = this.#options;
    const { active, reading, promptTokens: before } = decoder.stats();
    if (active + reading === 0 && this.#running.size === 0) return;
    const most = reading === 0 ? 0 : this.#pace.promptTokens(this.#equals());
    pulse.begin(this.#pace.expectedMs);
    const begun = performance.now();
    let drawn: readonly DrawnToken[];
    try {
      injectFault(active + Math.min(most, reading));
      drawn = decoder.step(most);
    } catch (error) {
      pulse.end(false);
      if (!(error instanceof OutOfMemory)) throw error;
      return this.#failAll(error.message);
    }
    const read = decoder.stats().promptTokens - before;
    this.#pace.stepped({ ms: performance.now() - begun, read, drawn: drawn.length });
    this.#results.decoded();
    if (read > 0) this.#results.read(read);
    for (const each of drawn) this.#take(each);
    pulse.end(true);
  }

  /** How many running sequences are as urgent as the most urgent prompt that is being read. The others wait for it. */
  #equals(): number {
    let urgent = Number.POSITIVE_INFINITY;
    for (const { sequence } of this.#running.values())
      if (sequence.next < 0) urgent = Math.min(urgent, sequence.submit.rank);
    let count = 0;
    for (const { sequence } of this.#running.values())
      if (sequence.next >= 0 && sequence.submit.rank <= urgent) count++;
    return count;
  }

  release(sequence: Sequence) {
    const id = sequence.slot;
    this.#running.get(id)?.grammar?.free();
    this.#running.delete(id);
    this.#options.decoder.release(id);
    this.#full = false;
  }

  keep(isIdle: boolean) {
    const { decoder, prefixes } = this.#options;
    if (!prefixes || prefixes.isClosed) return false;
    if (isIdle) return decoder.keep() || decoder.prepare();
    return this.#share.isOpen() && this.#share.spend(() => decoder.keep(false));
  }

  clear() {
    this.#options.decoder.clear();
  }

  close() {
    const until = performance.now() + FLUSH_MS;
    const { decoder, prefixes } = this.#options;
    while (prefixes?.isClosed === false && performance.now() < until && decoder.keep());
    this.#grammars.free();
    this.#options.close();
  }

  /** Returns false while there is no room. */
  #start(sequence: Sequence): boolean {
    const { decoder, native } = this.#options;
    const { submit } = sequence;
    if (sequence.slot >= 0) {
      if (!decoder.resume(sequence.slot)) return false;
      this.#results.started(sequence, 0);
      return true;
    }
    const cachedBefore = decoder.stats().cachedTokens;
    let grammar: GrammarState | null = null;
    try {
      if (submit.grammar !== null) grammar = this.#grammars.open(submit.grammar);
      // The decoder's list for penalties would count a rejected token.
      const always =
        grammar !== null && (submit.sampling.frequencyPenalty !== 0 || submit.sampling.presencePenalty !== 0);
      const id = decoder.admit({
        prompt: submit.prompt,
        maxTokens: Math.min(sequence.left, native.contextLength - submit.prompt.length + 1),
        drawing: this.#drawing(sequence, always),
        checked: grammar !== null && !always,
        propose: grammar?.guess.bind(grammar),
        adapter: sequence.adapter.own,
        rank: submit.rank,
        fresh: submit.fresh && sequence.leader === null,
        blocks: this.#blocksOf(sequence),
      });
      if (id === null) {
        grammar?.free();
        return false;
      }
      sequence.slot = id;
      this.#running.set(id, { sequence, grammar, always });
      if (grammar && always) decoder.mask(id, grammar.mask());
    } catch (error) {
      if (sequence.slot < 0) grammar?.free();
      this.#results.failed(sequence, errorText(error));
      return true;
    }
    this.#results.started(sequence, decoder.stats().cachedTokens - cachedBefore);
    return true;
  }

  /** The last token of a prompt is not in its pages. */
  #blocksOf({ submit: { prompt }, adapter }: Sequence): string[] {
    const { prefixes } = this.#options;
    if (!prefixes || adapter.identity === null) return [];
    const by = { decoder: DECODER, adapter: adapter.identity };
    return prefixes.names(by, prompt, Math.floor((prompt.length - 1) / prefixes.tokens));
  }

  #drawing({ id, submit }: Sequence, masked: boolean) {
    const { sampling, seeds, ignoreEos, topLogprobs, logprobTemperature } = submit;
    const biases = new Map(sampling.logitBias);
    for (const token of ignoreEos ? this.#options.native.kinds.all(END) : [])
      biases.set(token, Number.NEGATIVE_INFINITY);
    return {
      ...PLAIN,
      ...sampling,
      seed: seeds[id - submit.sequence]!,
      logitBias: [...biases],
      topLogprobs: topLogprobs < 0 ? undefined : topLogprobs,
      logprobTemperature,
      masked,
    };
  }

  #take({ sequence: id, token, logp, alternatives, done }: DrawnToken) {
    const running = this.#running.get(id);
    if (!running) return;
    const { sequence, grammar, always } = running;
    if (grammar && token !== NOTHING_LEFT) {
      if (!always && !grammar.allows(token)) {
        const before = sequence.next >= 0 ? sequence.next : sequence.submit.prompt.at(-1)!;
        return this.#options.decoder.redraw(id, before, grammar.mask());
      }
      grammar.accept(token);
    }
    this.#results.drawn(sequence, token, logp === undefined ? null : scoresOf(logp, alternatives ?? []));
    if (sequence.over) return;
    if (done) this.#results.full(sequence);
    else if (grammar && always) this.#options.decoder.mask(id, grammar.mask());
  }

  #failAll(error: string) {
    for (const { sequence } of [...this.#running.values()]) this.#results.failed(sequence, error);
  }
}

function scoresOf(logp: number, alternatives: readonly (readonly [number, number])[]): Float64Array {
  const scores = new Float64Array(1 + 2 * alternatives.length);
  scores[0] = logp;
  for (let i = 0; i < alternatives.length; i++) scores.set(alternatives[i]!, 1 + 2 * i);
  return scores;
}
