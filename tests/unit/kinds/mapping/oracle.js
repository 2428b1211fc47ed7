// Resolves mappings as Segment does: reads lines of JSON, [[mapping, event], ...], and answers each with a line.
const { transform } = require('@segment/actions-core/mapping-kit')

const lines = require('node:readline').createInterface({ input: process.stdin })
lines.on('line', (line) => process.stdout.write(JSON.stringify(JSON.parse(line).map(answer)) + '\n'))

// The text of the value, null where there is none; or what was thrown.
function answer([mapping, event]) {
  try {
    return { text: JSON.stringify(transform(mapping, event)) ?? null }
  } catch (error) {
    return { error: String(error.message) }
  }
}
