// mnist: the four files as published, fetched once; generated digits where they can't be had.
#include "core/error.h"
#include "data/idx.h"
#include "data/published.h"

namespace lockstep {

Data open_mnist(const Options& options, const OpenRequest& request) {
  const PublishedSet& mnist = published("mnist");
  const auto [folder, missing] = locate(mnist, options, request);
  if (missing.empty()) {
    mnist.verify(folder);
    Data data = open_idx_folder(folder, options, {255, {.1307f}, {.3081f}});
    data.name = mnist.name;
    data.spec = spec_in(folder, mnist, options);
    return data;
  }
  if (options.has("dir"))
    throw UsageError(
        fmt::format("MNIST is not in {} and can't be had: {}", folder.string(), missing));
  std::string digits = "digits";
  for (const char* key : {"mean", "deviation"})
    if (options.has(key))
      digits += fmt::format("{}{}={}", digits == "digits" ? ":" : ",", key, options.text(key));
  Data data = open_data(digits, request);
  data.notices.push_back(fmt::format("MNIST is not in {} ({}): generated digits stand in for it",
                                     folder.string(), missing));
  return data;
}

}  // namespace lockstep
