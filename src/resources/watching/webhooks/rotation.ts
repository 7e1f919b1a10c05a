/**
 * The secrets of an endpoint. During a rotation the replaced secret stays valid beside the new one. No older secret
 * outlives a newer one, so a rotation without grace ends all earlier secrets.
 */
export type ReplacedSecret = { secret: string; endsAtMs: number };
export type Secrets = { current: string; replaced: readonly ReplacedSecret[] };

const MAX_SIGNATURES = 4; // keeps the header small

export function rotate(secrets: Secrets, fresh: string, { nowMs, graceMs }: { nowMs: number; graceMs: number }) {
  const endsAtMs = nowMs + graceMs;
  const replaced = [
    { secret: secrets.current, endsAtMs },
    ...secrets.replaced.map((each) => ({ ...each, endsAtMs: Math.min(each.endsAtMs, endsAtMs) })),
  ];
  return { current: fresh, replaced: living(replaced, nowMs).slice(0, MAX_SIGNATURES - 1) } satisfies Secrets;
}

/** Newest first. */
export const signingSecrets = ({ current, replaced }: Secrets, nowMs: number): readonly string[] => [
  current,
  ...living(replaced, nowMs).map((each) => each.secret),
];

const living = (replaced: readonly ReplacedSecret[], nowMs: number) => replaced.filter((each) => each.endsAtMs > nowMs);
