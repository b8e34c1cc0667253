// What a job asks of the devices that measure it, beside their target and class: platform properties, as of
// Bazel's remote execution API (Platform.Property), of which a device must have at least so much (F11).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::tracker {

/// By property, amounts that are compared number by number: bytes ({17179869184}) or a version ({6, 1, 55}).
using Properties = std::map<std::string, std::vector<int64_t>>;

/// Of the JSON that a worker says HELLO with (workers/device.h), which may be anything: what it does not say
/// is left out.
Properties properties_of(std::string_view device_json);

/// Of {"memory": "16GiB", "driver": "6.1"}. Throws Error for a property that there is not, with the nearest
/// name, and for an amount that is none.
Properties parse_needs(const std::map<std::string, std::string>& needs);
/// Of "memory=16GiB", as flags have it. Throws Error when there is no `=` or a property is there twice.
std::map<std::string, std::string> split_needs(const std::vector<std::string>& texts);
/// The needs of a job request's JSON (job_request.h), which was checked when it was accepted. In a database
/// of another program, or of somebody who edits it, it may be anything: what cannot be read no device has.
Properties needs_of_request(std::string_view request);

/// With as many cores as a kernel has threads, where these are several: beside each other on one core they
/// measure nothing.
Properties with_cores_for(int64_t threads, Properties needs);

/// Whether a device with these properties has at least what is needed.
bool has_at_least(const Properties& device, const Properties& needs);

/// "memory of 16 GiB or more and driver 6.1 or newer"; "" of none.
std::string describe_needs(const Properties& needs);

/// The properties' names and what each means, for --help.
std::string needs_help();

}  // namespace lathe::tracker
