/**
 * LoRA adapters of one context. The library applies one set of adapters to a whole batch, so each batch uses one
 * adapter. A replaced or detached adapter lives until its last sequence ends. Keys are never reused: a cache computed
 * with an earlier adapter of the same name must not be taken for the new one's.
 */
import { ptr } from "bun:ffi";
import { cstr, must, type Ptr } from "../../../native/ffi.ts";
import type { Llama } from "../../../native/llama/symbols.ts";

export type Adapter = {
  key: number;
  address: Ptr | null;
  scale: number;
  users: number;
  named: boolean;
  /** True if this object frees it. Otherwise the engine that attached it does. */
  owned: boolean;
  /** Other adapters that are applied together instead of this one's own weights. Each counts one use by it. */
  members: readonly Member[];
};

type Member = { adapter: Adapter; scale: number };
export type AdapterPart = { name: string; scale: number };

export class Adapters {
  /** The key of the adapter that is applied to the context. */
  current = 0;
  readonly #llama: Llama;
  readonly #model: () => Ptr;
  readonly #byName = new Map<string, Adapter>();
  readonly #none: Adapter = { key: 0, address: null, scale: 1, users: 0, named: true, owned: false, members: [] };
  #lastKey = 0;

  /** `model` is called when an adapter is attached. */
  constructor(llama: Llama, model: () => Ptr) {
    this.#llama = llama;
    this.#model = model;
  }

  /** Returns the adapter's address: another context of the same model can share it. */
  attach(name: string, path: string, scale: number): Ptr {
    this.#llama.forgetError();
    const file = cstr(path);
    const address = this.#llama.llama_adapter_lora_init(this.#model(), ptr(file));
    if (address === null) throw new Error(`${path} is not an adapter of this model: ${this.#llama.firstError()}`);
    const held = must(address, path);
    this.#put(name, { address: held, scale, owned: true, members: [] });
    return held;
  }

  share(name: string, address: Ptr) {
    this.#put(name, { address, scale: 1, owned: false, members: [] });
  }

  /** Gives attached adapters that are applied together a name. */
  combine(name: string, parts: readonly AdapterPart[]) {
    const members = parts.map(({ name: part, scale }) => ({ adapter: this.use(part), scale }));
    this.#put(name, { address: null, scale: 1, owned: false, members });
  }

  #put(name: string, of: Pick<Adapter, "address" | "scale" | "owned" | "members">) {
    this.detach(name);
    this.#byName.set(name, { key: ++this.#lastKey, users: 0, named: true, ...of });
  }

  detach(name: string) {
    const adapter = this.#byName.get(name);
    if (!adapter) return;
    this.#byName.delete(name);
    adapter.named = false;
    this.#freeUnused(adapter);
  }

  /** Returns the name that `use` takes. Undefined if the adapter was replaced or detached. */
  nameOf(key: number): string | null | undefined {
    if (key === 0) return null;
    return [...this.#byName].find(([, adapter]) => adapter.key === key)?.[0];
  }

  /** Every use must be released once. */
  use(name: string | null): Adapter {
    const adapter = name === null ? this.#none : this.#byName.get(name);
    if (!adapter) throw new Error(`no adapter "${name}" is attached`);
    adapter.users++;
    return adapter;
  }

  release(adapter: Adapter) {
    adapter.users--;
    this.#freeUnused(adapter);
  }

  apply(context: Ptr, adapter: Adapter) {
    if (this.current === adapter.key) return;
    this.set(context, adapter);
    this.current = adapter.key;
    this.#context = context;
  }

  #context: Ptr | null = null;

  /** Applies the adapter to a context that this object does not track. The caller removes it before the release. */
  set(context: Ptr, adapter: Adapter) {
    const alone = adapter.address === null ? [] : [{ adapter, scale: adapter.scale }];
    const applied = adapter.members.length > 0 ? adapter.members : alone;
    const list = BigUint64Array.from(applied, (each) => BigInt(each.adapter.address ?? 0));
    const scales = Float32Array.from(applied, ({ scale }) => scale);
    const code = this.#llama.llama_set_adapters_lora(
      context,
      ptr(applied.length > 0 ? list : new BigUint64Array(1)),
      applied.length,
      applied.length > 0 ? scales : new Float32Array(1),
    );
    if (code !== 0) throw new Error(`llama_set_adapters_lora returned ${code}`);
  }

  #freeUnused(adapter: Adapter) {
    const isEmpty = adapter.address === null && adapter.members.length === 0;
    if (adapter.named || adapter.users > 0 || isEmpty) return;
    // the context still uses it
    if (this.current === adapter.key && this.#context !== null) this.apply(this.#context, this.#none);
    if (adapter.owned && adapter.address !== null) this.#llama.llama_adapter_lora_free(adapter.address);
    adapter.address = null;
    for (const member of adapter.members) this.release(member.adapter);
    adapter.members = [];
  }
}
