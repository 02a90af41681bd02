// The days of a span as they are here, also those on which nothing happened.
import type { Payload } from "../base";

/** What to tell the gateway, which may stand in another time zone. */
export function zone(): Payload {
  const ahead = -new Date().getTimezoneOffset();
  const minutes = Math.abs(ahead);
  return { mode: "specific", utcOffset: `UTC${ahead < 0 ? "-" : "+"}${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}` };
}

export function spread(daily: Payload[], days: number): Payload[] {
  const known = new Map<string, Payload>(daily.map((day) => [day.date, day]));
  return Array.from({ length: days }, (_, at) => {
    const date = new Date(Date.now() - (days - 1 - at) * 86_400_000);
    const name = new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 10);
    return known.get(name) ?? { date: name, totalCost: 0, totalTokens: 0 };
  });
}
