/**
 * Works on `atOnce` items at a time and yields results in order. The first failure is thrown when the others have
 * ended.
 */
export async function* inOrder<T, R>(
  items: Iterable<T>,
  atOnce: number,
  work: (item: T) => Promise<R>,
): AsyncGenerator<R> {
  const running: Promise<R>[] = [];
  try {
    for (const item of items) {
      const started = work(item);
      started.catch(() => {}); // thrown when its turn comes
      running.push(started);
      if (running.length >= atOnce) yield await running.shift()!;
    }
    while (running.length > 0) yield await running.shift()!;
  } finally {
    await Promise.allSettled(running);
  }
}
