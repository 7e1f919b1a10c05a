/** Binary heap: building costs O(n), the first of n costs O(log n) to take. `compare` below zero: `a` comes first. */
export class Heap<T> {
  readonly #items: T[];
  readonly #compare: (a: T, b: T) => number;

  constructor(items: Iterable<T>, compare: (a: T, b: T) => number) {
    this.#items = [...items];
    this.#compare = compare;
    for (let i = (this.#items.length >> 1) - 1; i >= 0; i--) this.#sink(i);
  }

  get size(): number {
    return this.#items.length;
  }

  first(): T | undefined {
    return this.#items[0];
  }

  take(): T | undefined {
    const [first] = this.#items;
    const last = this.#items.pop();
    if (last !== undefined && this.#items.length > 0) {
      this.#items[0] = last;
      this.#sink(0);
    }
    return first;
  }

  /** Restores the order after the first item was changed in place. */
  firstChanged() {
    this.#sink(0);
  }

  #sink(from: number) {
    const items = this.#items;
    let at = from;
    for (;;) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2])
        if (child < items.length && this.#compare(items[child] as T, items[least] as T) < 0) least = child;
      if (least === at) return;
      [items[at], items[least]] = [items[least] as T, items[at] as T];
      at = least;
    }
  }
}
