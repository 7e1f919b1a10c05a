import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** Draws its children when they come near the screen, so that a page of many curves opens at once. */
export function WhenSeen({ height, children }: { height: number; children: ComponentChildren }) {
  const ref = useRef<HTMLDivElement>(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (!ref.current || isSeen) return;
    const watch = new IntersectionObserver(([entry]) => entry?.isIntersecting && setSeen(true), {
      rootMargin: "200px",
    });
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, [isSeen]);
  return (
    <div ref={ref} style={{ minHeight: `${height}px` }}>
      {isSeen && children}
    </div>
  );
}

const STILL_MS = 150;

/** Elements that wait to stay on the screen, each with its drawing, and those that are there now. All share one observer. */
const wishes = new Map<Element, () => void>();
const seen = new Set<Element>();
let pause: ReturnType<typeof setTimeout> | undefined;
let watch: IntersectionObserver | undefined;

function note(entries: readonly IntersectionObserverEntry[]) {
  for (const { target, isIntersecting } of entries) seen[isIntersecting ? "add" : "delete"](target);
  clearTimeout(pause);
  pause = setTimeout(() => {
    for (const element of seen) wishes.get(element)?.();
    seen.clear();
  }, STILL_MS);
}

/** Draws its children when they stay on the screen for a moment: scrolling past loads nothing. */
export function WhenStill({ height, children }: { height: number; children: ComponentChildren }) {
  const ref = useRef<HTMLDivElement>(null);
  const [isStill, setStill] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (!element || isStill) return;
    watch ??= new IntersectionObserver(note);
    wishes.set(element, () => setStill(true));
    watch.observe(element);
    return () => {
      watch?.unobserve(element);
      wishes.delete(element);
      seen.delete(element);
    };
  }, [isStill]);
  return (
    <div ref={ref} style={{ minHeight: `${height}px` }}>
      {isStill && children}
    </div>
  );
}

/** Draws its children after the first frame of the page: a page shows its top before it builds what lies below. */
export function AfterPaint({ children }: { children: ComponentChildren }) {
  const [isPainted, setPainted] = useState(false);
  useEffect(() => {
    let isLeft = false;
    afterPaint(() => isLeft || setPainted(true));
    return () => {
      isLeft = true;
    };
  }, []);
  return <>{isPainted && children}</>;
}

/** Calls `then` when the next frame was painted: a message that is sent in a frame comes after it. */
export function afterPaint(then: () => void) {
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      then();
    };
    port2.postMessage(undefined);
  });
}
