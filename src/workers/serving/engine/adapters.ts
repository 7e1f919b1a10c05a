/**
 * LoRA adapters of one open model. The library applies one set of adapters to a whole batch, so each of its batches uses
 * one adapter. Our decoder gives every sequence its own. A replaced or detached adapter lives until its last sequence ends. Keys are never reused: a cache computed
 * with an earlier adapter of the same name must not be taken for the new one's.
 */
import { ptr } from "bun:ffi";
import { cstr, must, type Ptr } from "../../../native/ffi.ts";
import type { Llama } from "../../../native/llama/symbols.ts";

export type Adapter = {
  key: number;
  address: Ptr | null;
  /** Its number in our decoder, while that decodes. */
  own: number | undefined;
  /** Null: it has no file of its own here. */
  path: string | null;
  scale: number;
  /** Names its weights in the same way in every process. Null: they have no such name. */
  identity: string | null;
  users: number;
  named: boolean;
  /** True if this object frees it. Otherwise the engine that attached it does. */
  owned: boolean;
  /** Other adapters that are applied together instead of this one's own weights. Each counts one use by it. */
  members: readonly Member[];
};

const NOTHING: Omit<Adapter, "key" | "users" | "named"> = {
  address: null,
  own: undefined,
  path: null,
  scale: 1,
  identity: null,
  owned: false,
  members: [],
};

type Member = { adapter: Adapter; scale: number };
/** `identity`: names the weights of the file in the same way in every process. Null: it has no such name. */
export type AdapterFile = { name: string; path: string; scale: number; identity: string | null };

const scaled = (identity: string | null, scale: number) =>
  identity === null ? null : JSON.stringify([identity, scale]);

export type AdapterPart = { name: string; scale: number };

export class Adapters {
  /** The key of the adapter that is applied to the context. */
  current = 0;
  readonly #llama: Llama;
  readonly #model: () => Ptr;
  readonly #freeOwn: (own: number) => void;
  readonly #byName = new Map<string, Adapter>();
  readonly #live = new Set<Adapter>(); // those with a name or a user
  readonly #none: Adapter = { key: 0, users: 0, named: true, ...NOTHING, identity: "" };
  /** By key, also of adapters that are gone: slots may hold what they computed. */
  readonly #identities = new Map<number, string>([[0, ""]]);
  #lastKey = 0;

  /** `model` is called when the library attaches an adapter, `freeOwn` when our decoder is to free one. */
  constructor(llama: Llama, model: () => Ptr, freeOwn: (own: number) => void = () => {}) {
    this.#llama = llama;
    this.#model = model;
    this.#freeOwn = freeOwn;
  }

  /** Returns the adapter's address: another context of the same model can share it. */
  attach({ name, path, scale, identity }: AdapterFile): Ptr {
    const address = this.#open(path);
    this.#put(name, { address, path, scale, identity: scaled(identity, scale), owned: true });
    return address;
  }

  /** Names an adapter that our decoder has. */
  attachOwn({ name, path, scale, identity }: AdapterFile, own: number) {
    this.#put(name, { own, path, scale, identity: scaled(identity, scale) });
  }

  /** The files of attached adapters, as one is made of them. */
  filesOf(parts: readonly AdapterPart[]) {
    return parts.map(({ name, scale }) => {
      const path = this.#byName.get(name)?.path;
      if (!path) throw new Error(`no adapter "${name}" is attached from a file`);
      return { path, scale };
    });
  }

  /** The library decodes from now on: it loads the adapters that our decoder had. */
  moveToLibrary() {
    for (const adapter of this.#live) {
      const isOwn = adapter.own !== undefined;
      adapter.own = undefined;
      if (!isOwn || adapter.path === null) continue;
      adapter.address = this.#open(adapter.path);
      adapter.owned = true;
    }
  }

  #open(path: string): Ptr {
    this.#llama.forgetError();
    const file = cstr(path);
    const address = this.#llama.llama_adapter_lora_init(this.#model(), ptr(file));
    if (address === null) throw new Error(`${path} is not an adapter of this model: ${this.#llama.firstError()}`);
    return must(address, path);
  }

  share(name: string, address: Ptr) {
    this.#put(name, { address });
  }

  /** Gives attached adapters that are applied together a name. `own`: what our decoder made of them. */
  combine(name: string, parts: readonly AdapterPart[], own?: number) {
    const members = parts.map(({ name: part, scale }) => ({ adapter: this.use(part), scale }));
    const identities = members.map(({ adapter, scale }) => scaled(adapter.identity, scale));
    const identity = identities.includes(null) ? null : JSON.stringify(identities);
    this.#put(name, { own, members, identity });
  }

  #put(name: string, of: Partial<typeof NOTHING>) {
    this.detach(name);
    const adapter: Adapter = { key: ++this.#lastKey, users: 0, named: true, ...NOTHING, ...of };
    this.#byName.set(name, adapter);
    this.#live.add(adapter);
    if (adapter.identity !== null) this.#identities.set(adapter.key, adapter.identity);
  }

  identityOf(key: number): string | undefined {
    return this.#identities.get(key);
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
    if (adapter.named || adapter.users > 0 || !this.#live.delete(adapter)) return;
    if (adapter.own !== undefined) this.#freeOwn(adapter.own);
    adapter.own = undefined;
    // the context still uses it
    if (this.current === adapter.key && this.#context !== null) this.apply(this.#context, this.#none);
    if (adapter.owned && adapter.address !== null) this.#llama.llama_adapter_lora_free(adapter.address);
    adapter.address = null;
    for (const member of adapter.members) this.release(member.adapter);
    adapter.members = [];
  }
}
