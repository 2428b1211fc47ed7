# A program of somebody who uses analytics-ruby: only the host and its port are not the defaults.
require "json"
require "segment/analytics"
require "time"

failed = false
analytics = Segment::Analytics.new(
  write_key: ENV.fetch("WRITE_KEY"),
  host: ENV.fetch("HOST").split(":").first,
  port: ENV.fetch("PORT").to_i,
  on_error: proc { |status, error| failed = warn("error #{status}: #{error}") || true }
)
names = { userId: :user_id, anonymousId: :anonymous_id, groupId: :group_id, previousId: :previous_id }
JSON.parse(File.read(ENV.fetch("CALLS")), symbolize_names: true).each do |said|
  type = said.delete(:type)
  said[:timestamp] = Time.parse(said[:timestamp]) if said.key?(:timestamp)
  analytics.public_send(type, said.transform_keys { |name| names.fetch(name, name) })
end
analytics.flush
exit(failed ? 1 : 0)
