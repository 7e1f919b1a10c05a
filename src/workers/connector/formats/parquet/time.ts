/** Times as ISO 8601 JSON strings, for every 64-bit value: `Date` would end in the year 275760. */

const DAY_SECONDS = 86_400n;
const two = (number: number | bigint) => String(number).padStart(2, "0");

export const dateText = (days: number) => `"${dateOf(days)}"`;

/** `per` = units in a second. Writes the unit's decimals, or none if all are zero. */
export function instantText(value: bigint, per: bigint, utc: boolean): string {
  const seconds = floorDiv(value, per);
  const days = floorDiv(seconds, DAY_SECONDS);
  const rest = value - days * DAY_SECONDS * per;
  return `"${dateOf(Number(days))}T${clockOf(rest, per)}${utc ? "Z" : ""}"`;
}

export const clockText = (value: bigint, per: bigint, utc: boolean) => `"${clockOf(value, per)}${utc ? "Z" : ""}"`;

/** Months, days and milliseconds, four bytes each. */
export function intervalText(bytes: Uint8Array): string {
  if (bytes.byteLength !== 12) throw new Error(`an interval has ${bytes.byteLength} bytes`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, 12);
  const [months, days, millis] = [view.getUint32(0, true), view.getUint32(4, true), view.getUint32(8, true)];
  return `"P${months}M${days}DT${millis / 1000}S"`;
}

function clockOf(value: bigint, per: bigint): string {
  const seconds = Number(value / per);
  const fraction = value % per;
  const decimals = per.toString().length - 1;
  const tail = fraction === 0n ? "" : `.${fraction.toString().padStart(decimals, "0")}`;
  return `${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}${tail}`;
}

const floorDiv = (a: bigint, b: bigint) => a / b - (a % b < 0n ? 1n : 0n);

const ERA_DAYS = 146_097; // 400 years
const EPOCH_FROM_MARCH_0000 = 719_468; // days from 0000-03-01 to 1970-01-01

/** Years begin in March here, so that the leap day is their last. */
function dateOf(daysSince1970: number): string {
  const days = daysSince1970 + EPOCH_FROM_MARCH_0000;
  const era = Math.floor(days / ERA_DAYS);
  const ofEra = days - era * ERA_DAYS;
  const yearOfEra = Math.floor(
    (ofEra - Math.floor(ofEra / 1460) + Math.floor(ofEra / 36_524) - Math.floor(ofEra / 146_096)) / 365,
  );
  const ofYear = ofEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const fromMarch = Math.floor((5 * ofYear + 2) / 153);
  const day = ofYear - Math.floor((153 * fromMarch + 2) / 5) + 1;
  const month = fromMarch < 10 ? fromMarch + 3 : fromMarch - 9;
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
  return `${yearText(year)}-${two(month)}-${two(day)}`;
}

function yearText(year: number): string {
  if (year >= 0 && year <= 9999) return String(year).padStart(4, "0");
  return `${year < 0 ? "-" : "+"}${String(Math.abs(year)).padStart(6, "0")}`;
}
