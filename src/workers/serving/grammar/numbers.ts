/** Grammar rules for numbers within bounds, digit by digit. */

const DIGITS = 16;
const FRACTION_DIGITS = 6; // beyond about 15 significant digits a number reads back as its neighbour
const LIMIT = 10n ** BigInt(DIGITS) - 1n;

/** Returns undefined if no integer lies between the bounds. */
export function integerBetween(min: bigint | undefined, max: bigint | undefined): string | undefined {
  const low = min ?? -LIMIT;
  const high = max ?? LIMIT;
  const parts: string[] = [];
  if (low < 0n) {
    const negative = naturalBetween(high < 0n ? -high : 1n, -low);
    if (negative) parts.push(`"-" (${negative})`);
  }
  const natural = high < 0n ? undefined : naturalBetween(low < 0n ? 0n : low, high);
  if (natural) parts.push(natural);
  return parts.length > 0 ? parts.join(" | ") : undefined;
}

function naturalBetween(low: bigint, high: bigint): string | undefined {
  if (low > high) return undefined;
  const parts: string[] = [];
  for (let from = low; from <= high; ) {
    const width = from.toString().length;
    const top = 10n ** BigInt(width) - 1n;
    const to = top < high ? top : high;
    parts.push(sameWidth(from.toString(), to.toString()));
    from = to + 1n;
  }
  return parts.join(" | ");
}

function sameWidth(low: string, high: string): string {
  if (low === "") return "";
  const rest = low.length - 1;
  if (/^0*$/.test(low) && /^9*$/.test(high)) return anyDigits(low.length);
  const [a, b] = [Number(low[0]), Number(high[0])];
  if (a === b) return `"${a}" ${sameWidth(low.slice(1), high.slice(1))}`;
  const middle = b - a > 1 ? [`[${a + 1}-${b - 1}] ${anyDigits(rest)}`] : [];
  return `(${[
    `"${a}" ${sameWidth(low.slice(1), "9".repeat(rest))}`,
    ...middle,
    `"${b}" ${sameWidth("0".repeat(rest), high.slice(1))}`,
  ].join(" | ")})`;
}

const anyDigits = (count: number) => (count === 0 ? "" : `[0-9]{${count}}`);

export type Bound = { value: number; open: boolean };
type Decimal = { whole: bigint; fraction: string; open: boolean };

/** Returns undefined if no number lies between the bounds. Numbers have no exponent and few fraction digits. */
export function numberBetween(min: Bound | undefined, max: Bound | undefined): string | undefined {
  const low = min ?? { value: -Number(LIMIT), open: false };
  const high = max ?? { value: Number(LIMIT), open: false };
  const parts: string[] = [];
  if (low.value < 0) {
    const mirrored = decimalsBetween(high.value < 0 ? { ...high, value: -high.value } : { value: 0, open: true }, {
      ...low,
      value: -low.value,
    });
    if (mirrored) parts.push(`"-" (${mirrored})`);
  }
  if (high.value >= 0) {
    const natural = decimalsBetween(low.value < 0 ? { value: 0, open: false } : low, high);
    if (natural) parts.push(natural);
  }
  return parts.length > 0 ? parts.join(" | ") : undefined;
}

function decimalsBetween(from: Bound, to: Bound): string | undefined {
  if (from.value > to.value || (from.value === to.value && (from.open || to.open))) return undefined;
  const [low, high] = [decimal(from), decimal(to)];
  const parts: string[] = [];
  if (low.whole === high.whole) {
    parts.push(`"${low.whole}" (${fractionBetween(low, high)})`);
    return parts.join(" | ");
  }
  parts.push(`"${low.whole}" (${fractionAtLeast(low)})`);
  const between = naturalBetween(low.whole + 1n, high.whole - 1n);
  if (between) parts.push(`(${between}) ("." [0-9]{1,${FRACTION_DIGITS}})?`);
  const top = fractionAtMost(high);
  if (top) parts.push(`"${high.whole}" (${top})`);
  return parts.join(" | ");
}

function decimal({ value, open }: Bound): Decimal {
  const text = String(value).includes("e") ? value.toFixed(20) : String(value);
  const [whole = "0", fraction = ""] = text.split(".");
  return { whole: BigInt(whole), fraction: fraction.replace(/0+$/, ""), open };
}

const rest = (used: number) => `[0-9]{0,${Math.max(FRACTION_DIGITS - used, 2)}}`;

/** Returns the fractions that make the number at least the bound. */
function fractionAtLeast({ fraction, open }: Decimal): string {
  if (fraction === "") return open ? `"." "0"{0,3} [1-9] ${rest(4)}` : `("." [0-9]{1,${FRACTION_DIGITS}})?`;
  const parts: string[] = [];
  for (let i = 0; i < fraction.length; i++) {
    const digit = Number(fraction[i]);
    if (digit < 9) parts.push(`"${fraction.slice(0, i)}" [${digit + 1}-9] ${rest(i + 1)}`);
  }
  parts.push(`"${fraction}" ${open ? `"0"{0,2} [1-9]` : rest(fraction.length)}`);
  return `"." (${parts.join(" | ")})`;
}

/** Returns undefined if even the whole part alone is too high. */
function fractionAtMost({ fraction, open }: Decimal): string | undefined {
  if (fraction === "") return open ? undefined : `("." "0"{1,2})?`;
  const parts: string[] = [];
  for (let i = 0; i < fraction.length; i++) {
    const digit = Number(fraction[i]);
    if (digit > 0) parts.push(`"${fraction.slice(0, i)}" [0-${digit - 1}] ${rest(i + 1)}`);
  }
  if (!open) parts.push(`"${fraction}" "0"{0,2}`);
  return `("." (${parts.join(" | ")}))?`;
}

/** Both bounds share the whole part: common digits first, then each side separately. */
function fractionBetween(low: Decimal, high: Decimal): string {
  if (low.fraction === high.fraction) return low.fraction === "" ? `("." "0"{1,2})?` : `".${low.fraction}" "0"{0,2}`;
  const width = Math.max(low.fraction.length, high.fraction.length, 1);
  const [a, b] = [low.fraction.padEnd(width, "0"), high.fraction.padEnd(width, "0")];
  const step = (x: string, by: bigint) => (BigInt(x) + by).toString().padStart(width, "0");
  const [from, to] = [low.open ? step(a, 1n) : a, high.open ? step(b, -1n) : b];
  const parts: string[] = [];
  if (BigInt(from) <= BigInt(to)) parts.push(`"." (${sameWidth(from, to)})`); // with exactly `width` digits
  // more digits: strictly between the neighbours
  if (BigInt(step(b, -1n)) >= BigInt(a)) parts.push(`"." (${sameWidth(a, step(b, -1n))}) [0-9] [1-9]`);
  if (low.fraction === "" && !low.open) parts.push('""');
  return parts.join(" | ");
}
